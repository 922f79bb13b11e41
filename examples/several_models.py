"""A web service in which several models answer one question; run it with: uvicorn several_models:app"""

import json
from collections.abc import AsyncGenerator

from fastapi import FastAPI
from fastapi.responses import StreamingResponse

from multi_llm_chat import ChatService, create_provider
from multi_llm_chat.event_codec import write_event

app = FastAPI()
speakers = [create_provider("claude"), create_provider("gemini")]


@app.get("/ask")
async def ask(question: str) -> StreamingResponse:
    """Both models answer; each line is one event as JSON, with the name of its speaker."""

    async def lines() -> AsyncGenerator[str]:
        chat = ChatService(speakers)
        async for event in chat.process_message(f"@all {question}"):
            yield json.dumps(write_event(event)) + "\n"

    return StreamingResponse(lines(), media_type="application/x-ndjson")
