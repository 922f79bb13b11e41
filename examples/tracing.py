"""Spans of runs, model calls and tool calls in OpenTelemetry (GenAI conventions)."""

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from multi_llm_chat import Agent

spans = InMemorySpanExporter()
tracing = TracerProvider()
tracing.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(tracing)


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


with Agent("claude", tools=[get_weather]) as agent:
    print(agent.run_sync("How is the weather in Tokyo?").text)
for span in spans.get_finished_spans():
    print(span.name, (span.attributes or {}).get("gen_ai.usage.output_tokens", ""))
