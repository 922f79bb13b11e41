"""Between values and bytes: schemas, tool definitions, server-sent events, and what encoders and decoders share."""
