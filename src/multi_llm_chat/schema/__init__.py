"""JSON Schema of tools: cleanup, projection to what each dialect takes, tool definitions."""
