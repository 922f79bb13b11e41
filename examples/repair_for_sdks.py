"""One broken history, three vendors' SDKs: none of them answers with a 400."""
# pyright: basic

import anthropic
import openai
from google import genai

from multi_llm_chat import render

HISTORY = [
    {"role": "user", "content": "What is the weather in Tokyo?"},
    {"role": "assistant", "content": [{"type": "tool_call", "content": {"name": "weather", "arguments": {"city": "Tokyo"}}}]},
    {"role": "user", "content": "Never mind. Say hello."},  # the call was never answered
]  # fmt: skip

request = render(HISTORY, "anthropic", model="claude-sonnet-5")
message = anthropic.Anthropic().messages.create(**request.body)
print("anthropic:", "".join(block.text for block in message.content if block.type == "text"))

request = render(HISTORY, "openai", model="gpt-5.6-terra")
response = openai.OpenAI().responses.create(**request.body)
print("openai:", response.output_text)

request = render(HISTORY, "gemini", model="gemini-3-flash")
contents = request.body["contents"]
client = genai.Client()
answer = client.models.generate_content(model=request.model, contents=contents)
print("google:", answer.text)
print([note.message for note in request.notes])
