"""What is written below a pull request or an issue (https://docs.github.com/rest/issues/comments)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runner.forge.connection import UnavailableError, look_up
from runner.forge.repository import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.forge.repository import Repository


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment of a pull request or an issue.

    Attributes:
        id: given in order.
        author: the login of who wrote it; of an app with `[bot]` behind it.
        body: Markdown.
        url: its page.
    """

    id: int
    author: str
    body: str
    url: str


class Discussion:
    """The comments of one pull request or issue, which have one series of numbers.

    Args:
        repository: of the pull request or issue.
        number: its number.
    """

    def __init__(self, repository: Repository, number: int) -> None:
        self._repository = repository
        self._number = number

    def list_comments(self) -> Iterator[Comment]:
        """Yield all comments, the oldest first.

        Raises:
            RefusedError: they cannot be read.
            UnavailableError: not now.
        """
        return map(_read_comment, self._repository.list_all(f"issues/{self._number}/comments"))

    def create_comment(self, body: str) -> Comment:
        """Write a comment.

        Raises:
            RefusedError: the token has no right to.
            UnavailableError: no answer came; the comment may be there all the same.
        """
        answer = self._repository.ask("POST", f"issues/{self._number}/comments", {"body": body})
        return _read_comment(answer.data)

    def update_comment(self, comment: Comment, body: str) -> Comment:
        """Replace the body of a comment.

        Raises:
            RefusedError: the token has no right to.
            UnavailableError: no answer came.
        """
        answer = self._repository.ask("PATCH", f"issues/comments/{comment.id}", {"body": body})
        return _read_comment(answer.data)

    def delete_comment(self, comment: Comment) -> None:
        """Delete a comment.

        Raises:
            RefusedError: the token has no right to.
            UnavailableError: no answer came.
        """
        self._repository.ask("DELETE", f"issues/comments/{comment.id}")

    def find_login(self) -> str:
        """Return whose comments the token makes.

        Raises:
            UnavailableError: no answer came.
        """
        return self._repository.find_login()

    def find_head(self) -> str | None:
        """Return the commit that the pull request is at; None if it is none, or the token may not know.

        Raises:
            UnavailableError: no answer came.
        """
        try:
            head = look_up(self._repository.ask("GET", f"pulls/{self._number}").data, "head", "sha")
        except RefusedError:
            return None
        return head if isinstance(head, str) else None


def _read_comment(data: Any) -> Comment:
    number, body = look_up(data, "id"), look_up(data, "body")
    if not isinstance(number, int):
        raise UnavailableError("its answer cannot be read")
    author, url = look_up(data, "user", "login"), look_up(data, "html_url")
    return Comment(number, str(author or ""), str(body or ""), str(url or ""))
