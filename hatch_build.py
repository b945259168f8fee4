"""The README as package indexes show it: relative links, which a page there cannot follow, lead to the repository."""

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface


class ReadmeWithLinks(MetadataHookInterface):
    """Hook of hatchling that adds the field `readme` to the metadata of a distribution."""

    def update(self, metadata):
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        for link, view in ((r"(!\[[^]]*\]\()", "raw"), (r"((?<!!)\[[^]]*\]\()", "blob")):
            text = re.sub(rf"{link}(?![a-z]+:|#)", rf"\g<1>{metadata['urls']['Source']}/{view}/main/", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
