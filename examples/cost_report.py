"""What each model takes for the same question."""

from multi_llm_chat import Agent

QUESTION = "Explain in one sentence why the sky is blue."

for model in ("claude", "openai", "gemini"):
    with Agent(model) as agent:
        result = agent.run_sync(QUESTION)
    usage, cost = result.usage, result.cost
    price = "unknown" if cost is None else f"${cost:.6f}"
    print(f"{model}: {usage.input_tokens} in, {usage.output_tokens} out, {price}")
