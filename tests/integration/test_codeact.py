# SPDX-License-Identifier: Apache-2.0
"""The workflow of the codeact skill, step by step as in the guide.

Discover, call, add an output parser, chain, save the code action, use it. Then the server is
registered again.
"""

from __future__ import annotations

from scripted_server import params

USE = """
import json
from mcptools.github import search_repositories, list_commits
repos_result = search_repositories.run(search_repositories.Params(
    query="user:torvalds",
    sort=search_repositories.Sort.stars,
    order=search_repositories.Order.desc,
    perPage=10,
))
repos_data = json.loads(repos_result)
for repo in repos_data["items"][:3]:
    print(f"- {repo['name']}: {repo['stargazers_count']} stars")
"""

# What an agent appends to mcptools/github/search_repositories.py.
INTERFACE = '''

from pydantic import BaseModel


class Repository(BaseModel):
    """A repository."""

    name: str
    stargazers_count: int


class ParseResult(BaseModel):
    """What search_repositories finds."""

    repositories: list[Repository]


def run_parsed(params: Params) -> ParseResult:
    """Runs the tool and returns its result parsed."""
    from mcpparse.github.search_repositories import parse

    return parse(run(params))
'''

PARSER = """\
import json

from mcptools.github.search_repositories import ParseResult, Repository


def parse(result: str) -> ParseResult:
    return ParseResult(repositories=[Repository(**item) for item in json.loads(result)["items"]])
"""

CHAIN = """
import json
from mcptools.github import search_repositories, list_commits
repos = search_repositories.run_parsed(search_repositories.Params(
    query="user:torvalds", sort=search_repositories.Sort.stars, perPage=3
))
for repo in repos.repositories[:3]:
    params = list_commits.Params(owner="torvalds", repo=repo.name, perPage=2)
    commits = json.loads(list_commits.run(params))
    messages = [commit["commit"]["message"].split("\\n")[0] for commit in commits]
    print(repo.name, repo.stargazers_count, messages)
"""

API = '''\
from pydantic import BaseModel


class Commit(BaseModel):
    message: str
    url: str


class RepoCommits(BaseModel):
    name: str
    stars: int
    commits: list[Commit]


def run(username: str, top_n_repos: int = 3, last_n_commits: int = 5) -> list[RepoCommits]:
    """The latest commits of a user's repositories with the most stars."""
    from .impl import commits_of_top_repos

    return commits_of_top_repos(username, top_n_repos, last_n_commits)
'''

IMPL = """\
import json

from mcptools.github import list_commits, search_repositories

from .api import Commit, RepoCommits


def commits_of_top_repos(username: str, top_n_repos: int, last_n_commits: int) -> list[RepoCommits]:
    params = search_repositories.Params(query=f"user:{username}", perPage=top_n_repos)
    found = search_repositories.run_parsed(params)
    made = []
    for repo in found.repositories:
        result = list_commits.run(owner=username, repo=repo.name, perPage=last_n_commits)
        parsed = [
            Commit(message=c["commit"]["message"].split("\\n")[0], url=c["html_url"])
            for c in json.loads(result)
        ]
        made.append(RepoCommits(name=repo.name, stars=repo.stargazers_count, commits=parsed))
    return made
"""

SAVED = """
from gentools.github.commits_of_top_repos import run
for repo in run(username="torvalds", top_n_repos=2, last_n_commits=1):
    print(repo.name, f"{repo.stars:,}", repo.commits[0].message, repo.commits[0].url)
"""
SAVED_OUTPUT = (
    "linux 1,000,000 linux 0 https://example.org/linux/0\n"
    "subsurface 100,000 subsurface 0 https://example.org/subsurface/0"
)


def test_the_way_of_the_skill(mcp, workspace):
    assert mcp.register("github", params("github", "older")) == [
        "search_repositories",
        "list_commits",
    ]
    tools = workspace / "mcptools/github"
    assert sorted(path.name for path in tools.glob("[!.]*.py")) == [
        "__init__.py",
        "list_commits.py",
        "search_repositories.py",
    ]
    assert (
        mcp.cell(USE) == "- linux: 1000000 stars\n- subsurface: 100000 stars\n- uemacs: 10000 stars"
    )

    # An output parser: the interface goes into the tool's module, the implementation to mcpparse.
    module = tools / "search_repositories.py"
    module.write_text(module.read_text() + INTERFACE)
    parser = workspace / "mcpparse/github/search_repositories.py"
    parser.parent.mkdir(parents=True)
    parser.write_text(PARSER)
    mcp.tool("reset")
    assert mcp.cell(CHAIN).splitlines()[0] == "linux 1000000 ['linux 0', 'linux 1']"

    # The code action, saved and used.
    action = workspace / "gentools/github/commits_of_top_repos"
    action.mkdir(parents=True)
    (action / "__init__.py").write_text("from .api import run\n")
    (action / "api.py").write_text(API)
    (action / "impl.py").write_text(IMPL)
    mcp.tool("reset")
    assert mcp.cell(SAVED) == SAVED_OUTPUT

    # Registered again, with a newer server: the additions remain, the rest is new.
    mcp.register("github", params("github", "older"))
    assert module.read_text().endswith(INTERFACE)
    mcp.register("github", params("github"))
    assert module.read_text().endswith(INTERFACE) and "minimal_output: bool" in module.read_text()
    assert sorted(path.name for path in tools.iterdir() if path.name != "__pycache__") == [
        ".generated", ".tools.jsonl", "__init__.py", "list_commits.py", "search_repositories.py"
    ]  # fmt: skip
    mcp.tool("reset")
    assert mcp.cell(SAVED) == SAVED_OUTPUT
    assert (
        mcp.cell(
            "search = "
            "__import__('mcptools.github.search_repositories').github.search_repositories\n"
            "search.run_parsed(search.Params(query='x', minimal_output=False, "
            "perPage=1)).repositories[0].name"
        )
        == "'linux'"
    )
