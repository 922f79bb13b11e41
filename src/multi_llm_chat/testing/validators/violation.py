"""What a validator finds, and the texts it says it with.

A :class:`Wording` is one row of a provider's error table: the rule it enforces and the provider's
own sentence with holes. Filling the holes gives a :class:`Violation`.
"""

import msgspec


class Violation(msgspec.Struct, frozen=True):
    """One reason why the provider would refuse (or silently mangle) a request.

    ``status`` is the HTTP status the provider answers with. A status of 200 (then ``code`` is
    ``"silent"``) marks a request that is accepted but not understood as it was meant.
    """

    rule: str
    message: str
    status: int = 400
    param: str | None = None
    code: str | None = None


class Wording(msgspec.Struct, frozen=True):
    """A provider's sentence for one fault; ``message``, ``param`` and ``code`` are format templates."""

    rule: str
    message: str
    param: str | None = None
    code: str | None = None
    status: int = 400

    def fill(self, **values: object) -> Violation:
        """Fill the holes of this wording."""
        return Violation(
            rule=self.rule,
            message=self.message.format(**values),
            status=self.status,
            param=None if self.param is None else self.param.format(**values),
            code=None if self.code is None else self.code.format(**values),
        )


def silent(rule: str, message: str) -> Wording:
    """A wording for what the server accepts and then mishandles silently."""
    return Wording(rule, message, code="silent", status=200)


def listed(values: tuple[str, ...] | list[str], word: str = "and") -> str:
    """Quote and join values as OpenAI does: ``'a'``, ``'a' and 'b'``, ``'a', 'b', and 'c'``."""
    quoted = [f"'{value}'" for value in values]
    if len(quoted) > 2:
        return ", ".join(quoted[:-1]) + f", {word} {quoted[-1]}"
    return f" {word} ".join(quoted)
