"""The failures of databases, as errors for the user.

Rules:
1. Every failure becomes a ``StoreError`` that names the place and says what to do.
2. The database's own error text is never repeated: it may contain messages or a password.
3. A transient failure is retried for a limited time.
"""

from msgspec import Struct

from multi_llm_chat.errors import StoreError


class DatabaseFault(Struct, frozen=True):
    """A kind of failure.

    ``patience`` is for how many seconds the operation is retried; ``broken`` says that the connection
    can no longer be used. ``advice`` may name the ``{place}``.
    """

    reason: str
    advice: str
    patience: float = 0.0
    broken: bool = True

    def error(self, place: str, code: str) -> StoreError:
        """The error for the caller; ``code`` is the database's name for the failure."""
        return StoreError(f"{self.advice.format(place=place)} [{code}]", reason=self.reason)


BUSY = DatabaseFault(
    "busy",
    "Another program has been writing to the conversations in {place} for a minute. End it, and try again.",
    patience=60.0,
    broken=False,
)
FULL = DatabaseFault(
    "full",
    "The disk is full: the conversations in {place} could not be saved. Free some space, and try again.",
)
READ_ONLY = DatabaseFault(
    "read-only",
    "The conversations in {place} cannot be changed: the file or its folder is read-only. "
    "Allow writing there, or choose another place.",
)
UNOPENED = DatabaseFault(
    "unreachable",
    "The conversations in {place} could not be opened. Check that the folder exists and that you may read "
    "and write there.",
)
DAMAGED = DatabaseFault(
    "damaged",
    "The file {place} is damaged or is no store of conversations. Move it away, and put back a backup "
    "(*.backup next to it) if there is one.",
)
DISK = DatabaseFault(
    "full",
    "Reading or writing {place} failed: the disk is full, failing or gone. Check it, and try again.",
)
UNREACHABLE = DatabaseFault(
    "unreachable",
    "The database {place} cannot be reached. Check that the server runs, the address, the name and the password.",
    patience=10.0,
)
CONTENTION = DatabaseFault(
    "busy", "The database {place} is too busy. Try again later.", patience=60.0, broken=False
)
COLLISION = DatabaseFault(CONTENTION.reason, CONTENTION.advice, patience=2.0, broken=False)
FORBIDDEN = DatabaseFault(
    "read-only",
    "The database {place} does not allow this user to write. Ask its owner for the rights, or choose another one.",
)
UNKNOWN = DatabaseFault(
    "",
    "The database {place} refused an operation. This is a fault of this program: please report it.",
)
