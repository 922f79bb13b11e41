"""What the API reference leaves out: attributes that a method sets, without an annotation and without a docstring.

They are how an object works, not what it offers; their values are code. Fields of a class stay, with their types and defaults.
"""

# pyright: basic, reportMissingImports=false
# (griffe is installed with the site, by make docs)

import ast
from typing import Any

import griffe


class ReferenceFields(griffe.Extension):
    """Removes such attributes; ``mkdocs.yml`` names it."""

    def on_class_members(
        self, *, node: ast.AST | griffe.ObjectNode, cls: griffe.Class, agent: Any, **_: Any
    ) -> None:
        """Check the members of a class, when all are known."""
        for name, member in tuple(cls.members.items()):
            if isinstance(member, griffe.Attribute) and _is_internal(member):
                cls.del_member(name)


def _is_internal(attribute: griffe.Attribute) -> bool:
    return (
        attribute.labels == {"instance-attribute"}
        and attribute.annotation is None
        and attribute.docstring is None
    )
