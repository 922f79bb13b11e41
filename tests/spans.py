"""The spans and metrics of this process, recorded by OpenTelemetry's own SDK."""

from functools import cache
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Recorded:
    """The exports of the process; a process has one provider of each kind for its lifetime."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        tracing = TracerProvider()
        tracing.add_span_processor(SimpleSpanProcessor(self._exporter))
        trace.set_tracer_provider(tracing)
        metrics.set_meter_provider(MeterProvider([self._reader]))

    @property
    def spans(self) -> list[ReadableSpan]:
        """Return the spans that have ended, in the order of their ends."""
        return list(self._exporter.get_finished_spans())

    def named(self, operation: str) -> list[ReadableSpan]:
        """Return the spans of one operation."""
        return [span for span in self.spans if span.name.split(" ")[0] == operation]

    def points(self, metric: str) -> list[Any]:
        """Return the data points of a metric since the process started."""
        data = self._reader.get_metrics_data()
        return [
            point
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for each in scope.metrics
            if each.name == metric
            for point in each.data.data_points
        ]

    def clear(self) -> None:
        """Discard the spans so far."""
        self._exporter.clear()


@cache
def recorded() -> Recorded:
    """Make OpenTelemetry record from now on."""
    return Recorded()
