"""The OpenAI Chat Completions dialect: one base judge, and a table of rows with their quirks."""
