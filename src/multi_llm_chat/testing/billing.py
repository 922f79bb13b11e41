"""What providers charge for the input of requests: cached and fresh tokens, and the least that the same requests can cost.

It reads recorded requests alone and knows nothing of how they were made.

Rules:
1. A request is a row of blocks in the order in which its provider reads it: tools, system text, settings that void what is cached
   behind them, messages. Cache marks are no part of a block. A token is four bytes of a block's JSON.
2. ``anthropic``: marks write and read. A mark is compared with what was cached at it or up to twenty blocks before it; what is cached
   lasts five minutes or an hour from its last use. Writing costs 1.25 or 2 times a fresh token, reading a tenth.
   Source: platform.claude.com, prompt caching, 2026-11.
3. ``openai``: the longest prefix that was sent lately under the same ``prompt_cache_key``, in steps of 128 tokens from 1,024 on; reading
   costs a tenth, writing nothing. Source: platform.openai.com, prompt caching, 2026-11.
4. ``gemini``: the longest prefix that was sent lately, from 1,024 tokens on; reading costs a tenth.
   Source: ai.google.dev, context caching, 2026-11.
5. The least cost is that of the same requests with perfect foresight: every prefix that an earlier request sent is read, and
   exactly what a later request shares is written.
6. ``diverged_at`` is the first byte in which a request differs from the one sent before it that it has most in common
   with; None where it begins with the whole of it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

_BYTES_OF_A_TOKEN: Final = 4
_LOOKBACK: Final = 20


class Tariff(Struct, frozen=True):
    """Prices in fresh tokens, the fewest tokens that are cached, in steps of how many, and for how many seconds."""

    read: float = 0.1
    write: float = 1.0
    long_write: float = 1.0
    fewest: int = 1024
    step: int = 1
    seconds: float = 300.0
    long_seconds: float = 3600.0


TARIFFS: Final[Mapping[str, Tariff]] = {
    "anthropic": Tariff(write=1.25, long_write=2.0),
    "openai": Tariff(step=128, seconds=600.0),
    "gemini": Tariff(seconds=600.0),
}


class BilledRequest(Struct, frozen=True):
    """A request: its provider, its body, and when it was sent, in seconds."""

    provider: str
    body: Mapping[str, Any]
    at: float = 0.0


class Charge(Struct, frozen=True):
    """The input tokens of one request, what they cost in fresh tokens, and where its prefix diverged."""

    fresh: int
    read: int
    written: int
    cost: float
    diverged_at: int | None = None


class Bill(Struct, frozen=True):
    """The charges of several requests."""

    charges: tuple[Charge, ...]

    @property
    def cost(self) -> float:
        """What the input costs, in fresh tokens."""
        return sum(charge.cost for charge in self.charges)

    @property
    def read(self) -> int:
        """The tokens that were read from a cache."""
        return sum(charge.read for charge in self.charges)


class _Block(Struct, frozen=True):
    text: bytes
    mark: Mapping[str, Any] | None = None

    @property
    def tokens(self) -> int:
        return -(-len(self.text) // _BYTES_OF_A_TOKEN)


def bill(requests: Iterable[BilledRequest]) -> Bill:
    """What the requests cost as their provider charges them, in the order in which they were sent."""
    cache: dict[tuple[bytes, ...], tuple[float, float]] = {}
    charges: list[Charge] = []
    earlier: list[Sequence[_Block]] = []
    for request in requests:
        blocks = list(_blocks(request))
        diverged = _diverged_at(blocks, earlier)
        charge = _charge(request, blocks, cache)
        charges.append(msgspec.structs.replace(charge, diverged_at=diverged))
        earlier.append(blocks)
    return Bill(tuple(charges))


def least_bill(requests: Iterable[BilledRequest]) -> Bill:
    """The least that the same requests can cost, from their longest common prefixes."""
    sent = list(requests)
    rows = [list(_blocks(request)) for request in sent]
    charges: list[Charge] = []
    for at, (request, blocks) in enumerate(zip(sent, rows, strict=True)):
        tariff = TARIFFS[request.provider]
        read = max((_common(blocks, each) for each in rows[:at]), default=0)
        shared = max((_common(blocks, each) for each in rows[at + 1 :]), default=0)
        read, shared = (count if count >= tariff.fewest else 0 for count in (read, shared))
        read -= read % tariff.step
        written = max(0, shared - read)
        fresh = _tokens(blocks) - read - written
        cost = fresh + read * tariff.read + written * tariff.write
        charges.append(Charge(fresh, read, written, cost))
    return Bill(tuple(charges))


# Blocks.


def _blocks(request: BilledRequest) -> Iterator[_Block]:
    body = request.body
    if request.provider == "anthropic":
        # A tool whose loading is deferred stands where a message adds it, not in the cached prefix.
        tools = body.get("tools", ())
        yield from _listed(tool for tool in tools if not tool.get("defer_loading"))
        yield from _listed(_long(body.get("system")))
        # Another choice of tools or other thinking voids the cache of the messages.
        yield _Block(_json([body.get("tool_choice"), body.get("thinking")]))
        for message in body.get("messages", ()):
            for block in _long(message["content"]):
                yield _block({"role": message["role"]} | block)
        return
    if request.provider == "openai":
        yield _Block(_json(body.get("prompt_cache_key")))
        yield from _listed(body.get("tools"))
        yield _Block(_json(body.get("instructions")))
        yield from _listed(body.get("input", body.get("messages")))
        return
    yield _Block(_json(body.get("systemInstruction")))
    yield from _listed(body.get("tools"))
    for content in body.get("contents", ()):
        for part in content["parts"]:
            yield _Block(_json([content["role"], part]))


def _long(content: Any) -> list[Any]:
    """Content in its long form: a text is short for one block."""
    if content is None:
        return []
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _listed(values: Iterable[Any] | None) -> Iterator[_Block]:
    for value in values or ():
        yield _block(value)


def _block(value: Mapping[str, Any]) -> _Block:
    unmarked = {key: each for key, each in value.items() if key != "cache_control"}
    return _Block(_json(unmarked), value.get("cache_control"))


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value)


def _tokens(blocks: Iterable[_Block]) -> int:
    return sum(block.tokens for block in blocks)


def _shared(one: Sequence[_Block], other: Sequence[_Block]) -> int:
    """How many blocks both begin with."""
    pairs = zip(one, other, strict=False)
    return next(
        (at for at, (mine, its) in enumerate(pairs) if mine.text != its.text),
        min(len(one), len(other)),
    )


def _common(one: Sequence[_Block], other: Sequence[_Block]) -> int:
    """How many tokens both begin with."""
    return _tokens(one[: _shared(one, other)])


def _diverged_at(blocks: Sequence[_Block], earlier: Sequence[Sequence[_Block]]) -> int | None:
    if not earlier:
        return None
    nearest = max(earlier, key=lambda each: (_common(blocks, each), -len(each)))
    same = _shared(blocks, nearest)
    if same == len(nearest):
        return None
    before = sum(len(block.text) for block in nearest[:same])
    mine = blocks[same].text if same < len(blocks) else b""
    pairs = zip(mine, nearest[same].text, strict=False)
    return before + next((at for at, (one, other) in enumerate(pairs) if one != other), len(mine))


# Charges.


def _charge(
    request: BilledRequest,
    blocks: Sequence[_Block],
    cache: dict[tuple[bytes, ...], tuple[float, float]],
) -> Charge:
    """Charge one request; ``cache`` has what is cached, until when, and for how long from each use."""
    for prefix in [prefix for prefix, (until, _) in cache.items() if until < request.at]:
        del cache[prefix]
    texts = [block.text for block in blocks]
    tariff = TARIFFS[request.provider]
    if request.provider == "anthropic":
        return _charge_marks(request, blocks, texts, tariff, cache)
    length = max((_match(texts, prefix) for prefix in cache), default=0)
    read = _tokens(blocks[:length])
    read = read - read % tariff.step if read >= tariff.fewest else 0
    cache[tuple(texts)] = request.at + tariff.seconds, tariff.seconds
    fresh = _tokens(blocks) - read
    return Charge(fresh, read, 0, fresh + read * tariff.read)


def _match(texts: Sequence[bytes], prefix: Sequence[bytes]) -> int:
    pairs = zip(texts, prefix, strict=False)
    return next(
        (at for at, (mine, its) in enumerate(pairs) if mine != its), min(len(texts), len(prefix))
    )


def _charge_marks(
    request: BilledRequest,
    blocks: Sequence[_Block],
    texts: Sequence[bytes],
    tariff: Tariff,
    cache: dict[tuple[bytes, ...], tuple[float, float]],
) -> Charge:
    marks = [at + 1 for at, block in enumerate(blocks) if block.mark is not None]
    found = 0
    for mark in marks:
        for length in range(mark, max(0, mark - _LOOKBACK - 1), -1):
            prefix = tuple(texts[:length])
            if prefix in cache:
                _, seconds = cache[prefix]
                cache[prefix] = request.at + seconds, seconds
                found = max(found, length)
                break
    read = _tokens(blocks[:found])
    written, paid = 0, 0.0
    for mark in marks:
        tokens = _tokens(blocks[:mark])
        if mark <= found or tokens < tariff.fewest:
            continue
        is_long = (blocks[mark - 1].mark or {}).get("ttl") == "1h"
        seconds = tariff.long_seconds if is_long else tariff.seconds
        cache[tuple(texts[:mark])] = request.at + seconds, seconds
        added = tokens - read - written
        written += added
        paid += added * (tariff.long_write if is_long else tariff.write)
    fresh = _tokens(blocks) - read - written
    return Charge(fresh, read, written, fresh + read * tariff.read + paid)
