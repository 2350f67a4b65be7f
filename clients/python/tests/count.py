"""The code lines of the package: without blank lines, comments and docstrings."""

import ast
import io
import pathlib
import tokenize

PACKAGE = pathlib.Path(__file__).parent.parent / "src" / "delayq"
NOT_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENCODING, tokenize.ENDMARKER,
}  # fmt: skip


def code_lines(text: str) -> int:
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NOT_CODE:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", [])
        for one in body if isinstance(body, list) else []:
            if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant):
                if isinstance(one.value.value, str):
                    lines -= set(range(one.lineno, one.end_lineno + 1))
    return len(lines)


if __name__ == "__main__":
    counts = {path.name: code_lines(path.read_text()) for path in sorted(PACKAGE.glob("*.py"))}
    print(counts, sum(counts.values()))
