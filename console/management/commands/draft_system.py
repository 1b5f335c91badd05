"""Draft the description of a system from an OpenAPI document; a person completes it."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from reviews.systems.rules.description import description_faults
from reviews.systems.rules.drafting import UnusableDocument, draft_description, readable_paths
from reviews.systems.rules.formatting import format_description


class Command(BaseCommand):
    """Print a draft to stdout, and to stderr what a person must add before it is valid."""

    help = (
        "Drafts the description of a system from an OpenAPI document. It takes over what the document says under a"
        " plain name, says what it could not find, and never guesses what a state means."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The document, the path of one object, and the name of the description."""
        parser.add_argument("document", type=Path, help="the OpenAPI document (version 3), as JSON")
        parser.add_argument("--path", help="the path of one object, such as /v1/refunds/{id}")
        parser.add_argument("--name", default="my_system", help="the name of the description and of its file")

    def handle(self, *, document: Path, path: str | None, name: str, **options: Any) -> None:
        """Read, draft and print; nothing is stored."""
        try:
            openapi = json.loads(document.read_bytes())
        except (OSError, ValueError) as problem:
            raise CommandError(f"{document} cannot be read as JSON: {problem}") from None
        if not isinstance(openapi, dict):
            raise CommandError(f"{document} is no OpenAPI document of version 3.")
        try:
            paths = readable_paths(openapi)
            if path is None and len(paths) != 1:
                listed = "\n".join(f"  --path '{each}'" for each in paths)
                raise CommandError(
                    f"Choose the path of one object:\n{listed}" if paths else "No path ends in a parameter."
                )
            draft = draft_description(openapi, path or paths[0], name)
        except UnusableDocument as refused:
            raise CommandError(refused.detail) from None
        self.stdout.write(format_description(draft.document))
        self.stderr.write("To be added by a person:")
        for remark in draft.remarks:
            self.stderr.write(f"- {remark}")
        self.stderr.write("Not valid yet:")
        self.stderr.write("\n".join(f"- {fault}" for _, fault in description_faults(draft.document)))
