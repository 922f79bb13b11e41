"""JSON Schema of tools: cleanup, projection to what each dialect accepts, tool definitions."""
