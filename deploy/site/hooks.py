# SPDX-License-Identifier: Apache-2.0
"""What MkDocs needs beside `docs/`: the pages elsewhere in the repository, the navigation, links
that lead where a page of the site is, and anchors like those of GitHub."""

import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
# Pages outside of `docs/`, by their names on the site.
ELSEWHERE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "STYLE.md": "style.md",
    "bench/README.md": "bench.md",
    "e2e/conformance/README.md": "conformance.md",
}
DECISIONS = "decisions/index.md"
TEMPLATE = "decisions/0000-template.md"
NAV = {
    "Get started": ["index.md", "get-started.md", "beside-others.md", "compatibility.md"],
    "Concepts": ["concepts.md", "glossary.md", "remote.md", "encoded-rows.md", "engines.md"],
    "Operate": ["deployment.md", "operations.md", "alerts.md", "security.md", "changelog.md"],
    "Tune": ["tune.md", "plan.md"],
    "Troubleshoot": ["troubleshoot.md", "doctor.md", "reasons.md", "failures.md"],
    "Reference": ["configuration.md", "protocol.md", "storage.md"],
    "Internals": [
        "architecture.md", "shuffle.md", "simulation.md", "conformance.md", "bench.md", "magnet.md",
        "ancestors.md", "contributing.md", "style.md", DECISIONS,
    ],
}  # fmt: skip
LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s]*)(#[^)\s]*)?\)")
FENCE = re.compile(r"^(```.*?^```)", re.MULTILINE | re.DOTALL)


def on_config(config):
    config.nav = [{title: pages} for title, pages in NAV.items()]
    config.mdx_configs["toc"] = {"slugify": slug, "permalink": False}
    return config


def slug(heading: str, _separator: str) -> str:
    """Returns the anchor that GitHub gives a heading, as the site has it."""
    return safe_anchor(re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-"))


def safe_anchor(anchor: str) -> str:
    """The theme's script takes anchors for selectors, which begin with no digit."""
    return f"_{anchor}" if anchor[:1].isdigit() else anchor


def on_files(files, config):
    for source, name in ELSEWHERE.items():
        files.append(File.generated(config, name, content=(ROOT / source).read_text()))
    for result in results():
        content = (ROOT / result).read_bytes()
        files.append(File.generated(config, site_name(result), content=content))
    style = (Path(__file__).parent / "site.css").read_text()
    files.append(File.generated(config, "site.css", content=style))
    listed = [name for name in decisions(files) if name != TEMPLATE]
    files.append(File.generated(config, DECISIONS, content=index_of(listed)))
    return files


def decisions(files) -> list[str]:
    names = (file.src_uri for file in files.documentation_pages())
    return sorted(name for name in names if name.startswith("decisions/0"))


def index_of(names: list[str]) -> str:
    lines = ["# Decisions", "", "Choices that are hard to change, with their reasons.", ""]
    for name in names:
        title = (ROOT / "docs" / name).read_text().split("\n", 1)[0].removeprefix("# ")
        lines.append(f"* [{title}]({posixpath.basename(name)})")
    return "\n".join(lines) + "\n"


def results() -> list[str]:
    """Returns the files of results, which pages cite."""
    paths = sorted((ROOT / "bench" / "results").glob("*.*"))
    return [str(path.relative_to(ROOT)) for path in paths]


def site_name(path: str) -> str | None:
    """Returns the name on the site of a path in the repository; nothing if it is not there."""
    if path in ELSEWHERE:
        return ELSEWHERE[path]
    if path == "docs/decisions":
        return DECISIONS
    if path.startswith("bench/results/"):
        return path.removeprefix("bench/")
    is_page = path.startswith("docs/") and (ROOT / path).is_file()
    return path.removeprefix("docs/") if is_page else None


def on_page_markdown(markdown, page, config, files):
    name = page.file.src_uri
    if name == DECISIONS:
        return markdown
    source = {on_site: path for path, on_site in ELSEWHERE.items()}.get(name, f"docs/{name}")
    parts = FENCE.split(markdown)
    prose = [part if at % 2 else relinked(part, source, name) for at, part in enumerate(parts)]
    return "".join(prose)


def relinked(text: str, source: str, name: str) -> str:
    """Makes links from one file of the repository to others lead to their pages on the site."""

    def link(found: re.Match) -> str:
        words, target = found[1], found[2]
        anchor = f"#{safe_anchor(found[3][1:])}" if found[3] else ""
        if not target:
            return f"[{words}]({anchor})"
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if ":" in target or not (ROOT / path).exists():
            # MkDocs says what leads nowhere.
            return found[0]
        on_site = site_name(path)
        if on_site is None:
            # A file of the sources: its name is enough.
            return words if path in words else f"{words} (`{path}`)"
        return f"[{words}]({posixpath.relpath(on_site, posixpath.dirname(name) or '.')}{anchor})"

    return LINK.sub(link, text)
