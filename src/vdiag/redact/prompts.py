"""What people asked a server and what it answered, in each form in which vLLM logs it with requests.

The lines are those of vLLM 0.6 to 0.33: the request logger, request and response bodies, dumps of the scheduler, the
parsers of tool calls, validation errors that quote their input. Lengths stay, since they matter to a diagnosis.
"""

from __future__ import annotations

import re

from vdiag.redact.book import Book, is_pseudonym

_REPR = r"'(?:[^'\\\n]|\\.)*'?|\"(?:[^\"\\\n]|\\.)*\"?"
_LOGGED = re.compile(  # Received request x: prompt: '…', params: …; Generated response x: output: '…', …
    rf"(?:(?<=[ ,{{(\[])|^)(prompt|Prompt|Generated text|output|content|decoder_prompt|encoder_prompt|text|input)(: )({_REPR})(?=, [A-Za-z_ ]+:|,? ?\w+=|[.}}]?$|$)",
    re.MULTILINE,
)
_IDS = re.compile(
    r"(\b(?:[a-z]+_)*(?:prompt_token_ids|token_ids|input_ids|output_token_ids|prompt_ids|new_token_ids|all_token_ids|delta_token_ids|prefill_token_ids|token_id_list)"
    r"\\*[\"']?[ \t]*[:=][ \t]*)(?:(?:list|array|tensor|tuple)\()?(\[[\[\d\s,.…-]*\]*|\((?:\d+,[\d\s,]*)\))"
)
_SETTING_IDS = (
    "stop_token_ids",
    "bad_words_token_ids",
    "logprob_token_ids",
    "allowed_token_ids",
    "all_stop_token_ids",
    "eos_token_ids",
)
_STRONG = (
    "content|prompt|reasoning_content|reasoning|input_text|output_text|suffix|instructions|arguments|partial_json|refusal|negative_prompt|system_prompt"
    "|raw_prompt|decoder_prompt|encoder_prompt|prompt_text|generated_text|user_prompt|inputs|thinking|transcript"
)
_WEAK = "text|input|query|documents|output|passages|sentences|text_1|text_2|queries|delta|title|question|answer|data|url"
_FIELD = re.compile(rf"(?P<q>\\*[\"'])(?P<key>{_STRONG}|{_WEAK})(?P=q)[ \t]*:[ \t]*(?P<open>[\"'\[{{\\])")
_KEYWORD = re.compile(rf"(?<![\w.])(?P<key>{_STRONG}|text|text_output|output_text)=(?P<open>[\"'\[])")
_BODY = re.compile(
    r"\\*[\"'](?:role|messages|choices|prompt|max_tokens|finish_reason|tool_calls|documents|input_type|object|loc)\\*[\"'][ \t]*:|JSON body|request body|response_body"
    r"|/v1/(?:embeddings|responses|score|rerank|completions|chat)|CompletionOutput|ChatMessage|TextPrompt|Request\("
)
_ENCODED = re.compile(
    r"(\bdata:(?:image|audio|video|application)/[\w.+-]+;base64,)([A-Za-z0-9+/=_-]{12,}|%[^\s\"']+)"
)
_ASKED = re.compile(r"([?&](?:prompt|text|query|input|messages|content)=)([^&\s\"'#]+)")
_INPUT_VALUE = re.compile(r"(input_value=)(.*?)(, input_type=(\w+))", re.DOTALL)
_ONE_WORD = re.compile(r"[\"']?[\w.:/+*-]{0,40}[\"']?")
_REST = re.compile(  # messages that print a text without quotes, to the end of the row
    r"\b(?P<said>[Ii]nput prompt: |[Mm]odel output: |model_output: |delta_text: |current_text: |previous_text: |cur_text ?[:=] ?|full_text: |[Gg]enerated text: "
    r"|got arguments diff: |got diff |diffing old arguments: |against new ones: |Parsed tool call |Tokens received: |First tokens in arguments received: "
    r"|Error in extracting tool call from response |Invalid JSON in browser tool call, using error placeholder: |Invalid JSON args, caught and retried: "
    r"|Only string content is supported, but got |Failed to parse tool call details from: |[Pp]rompt was: |[Cc]hat prompt: |Final prompt: |Rendered prompt: "
    r"|Decoded text: |reasoning_content: |response_text: |[Ss]kipping text |in tool call arguments: |system_prompt: )(?P<text>\S.*)$",
    re.MULTILINE,
)
_FINDING = re.compile(r"(?P<said>\] (?:finding|Searching for diff between) )(?P<text>\S.*)$", re.MULTILINE)
_PARSER = re.compile(
    r"(?P<said>\bDEBUG [^\n\[]*\[\w*(?:tool|reasoning)_?(?:call_)?parsers?\.py:\d+\] )(?P<text>\S.*)$",
    re.MULTILINE,
)

# What a row must hold, in lower case, for any of this to find something there.
LITERALS = (
    *(f"{word}{behind}" for word in (*_STRONG.split("|"), *_WEAK.split("|"), "token_ids", "input_ids", "prompt_ids")
      for behind in ("=", ":", " =", " :", "'", '"', "\\")),
    "input_value", "generated text:", "finding ", "diff", "tool call", "parser.py", "parsers.py", "string content", ";base64,", "skipping text", "in tool call arguments: ", "system_prompt: ",
)  # fmt: skip


def replace(text: str, book: Book) -> str:
    """The text without prompts, completions and their token ids."""
    low = text.lower()
    if "token_ids" in low or "input_ids" in low or "prompt_ids" in low:
        text = _IDS.sub(lambda m: _ids(m, book), text)
    if "input_value=" in text:
        text = _INPUT_VALUE.sub(lambda m: _input_value(m, book), text)
    if "request" in low or "response" in low or "prompt" in low:
        text = _LOGGED.sub(lambda m: m[1] + m[2] + _quoted(m[3], _kind(m[1]), book), text)
    if ";base64," in text:
        text = _ENCODED.sub(lambda m: m[1] + _placed(m[2], "input", book), text)
    text = _ASKED.sub(lambda m: m[1] + _placed(m[2], "prompt", book), text)
    text = _fields(_FIELD, text, book)
    text = _fields(_KEYWORD, text, book)
    for pattern in (_REST, _FINDING, _PARSER):
        text = pattern.sub(
            lambda m: (
                m["said"] + _placed(m["text"], "completion" if "rompt" not in m["said"] else "prompt", book)
            ),
            text,
        )
    return text


def _kind(key: str) -> str:
    return (
        "completion"
        if key
        in (
            "output",
            "output_text",
            "generated_text",
            "arguments",
            "partial_json",
            "reasoning",
            "reasoning_content",
        )
        else "prompt"
    )


_DUMMIES = frozenset(
    [
        "none",
        "null",
        "true",
        "false",
        "hello",
        "hi",
        "yes",
        "test",
        "a",
        "b",
        "x",
        "system",
        "user",
        "assistant",
        "thinking",
        "text",
        "list",
    ]
)


def _placed(value: str, kind: str, book: Book) -> str:
    """The pseudonym of a text, which tells its length; what holds no words stays."""
    bare = value.strip()
    if is_pseudonym(bare) or not any(c.isalnum() for c in bare) or bare.lower().rstrip("!.") in _DUMMIES:
        return value
    return book.name(kind, value, f"{len(value)} characters")


def _quoted(literal: str, kind: str, book: Book) -> str:
    """A string literal with its quotes; its length is that of the text between them, as written."""
    quote = literal[0]
    closed = len(literal) > 1 and literal.endswith(quote)
    inner = literal[1:-1] if closed else literal[1:]
    return quote + _placed(inner, kind, book) + (quote if closed else "")


def _ids(found: re.Match[str], book: Book) -> str:
    name = re.sub(r"\W.*", "", found[1], flags=re.DOTALL)
    if name.endswith(_SETTING_IDS):
        return found[0]
    numbers = re.findall(r"\d+", found[2])
    if not numbers:
        return found[0]
    ids = book.name("token-ids", found[2], f"{len(numbers)} numbers")
    return found[0] if ids == found[2] else found[1] + found[0][len(found[1]) :].replace(found[2], ids)


def _input_value(found: re.Match[str], book: Book) -> str:
    """What a validation error quotes: an engine's arguments and single words stay, requests go."""
    value = found[2]
    if (
        value.startswith(("ArgsKwargs", "<"))
        or found[4] in ("ArgsKwargs", "int", "float", "bool", "NoneType")
        or _ONE_WORD.fullmatch(value)
        or is_pseudonym(value.strip("'\""))
    ):
        return found[0]
    return found[1] + _placed(value, "input", book) + found[3]


def _fields(pattern: re.Pattern[str], text: str, book: Book) -> str:
    """Replaces the strings that stand under a field of a body: `"content": "…"`, also in lists and objects."""
    if not pattern.search(text):
        return text
    body = _BODY.search(text) is not None
    out: list[str] = []
    at = 0
    while found := pattern.search(text, at):
        start, key = found.start("open"), found["key"]
        weak = pattern is _FIELD and key in _WEAK.split("|")
        if weak and not body:
            out.append(text[at : found.end("open")])
            at = found.end("open")
            continue
        made, end = _member(text, start, key, book)
        out += [text[at:start], made]
        at = max(end, start + 1)
    return "".join(out) + text[at:]


def _member(text: str, start: int, key: str, book: Book) -> tuple[str, int]:
    """What stands there instead of the value that begins at `start`, and where it ends."""
    opening = re.compile(r"\\*[\"']").match(text, start)
    if opening:
        end = string_end(text, opening.end(), opening[0])
        inner = text[opening.end() : end]
        if key == "url" and not inner.startswith("data:"):
            return opening[0] + inner, end
        return opening[0] + _placed(inner, _kind(key), book), end
    if text[start] == "[" and re.compile(r"\[[ \t]*\\*[\"']").match(text, start):  # a list of strings
        pos, made = start + 1, "["
        while pos < len(text) and text[pos] not in "]\n":
            if opening := re.compile(r"\\*[\"']").match(text, pos):
                end = string_end(text, opening.end(), opening[0])
                made += opening[0] + _placed(text[opening.end() : end], _kind(key), book)
                pos = end
                if text.startswith(opening[0], pos):
                    made, pos = made + opening[0], pos + len(opening[0])
            else:
                made, pos = made + text[pos], pos + 1
        return made, pos
    if text[start] == "{" and key in (
        "input",
        "inputs",
        "arguments",
    ):  # what a validation error quotes, or a call
        end = _balanced(text, start)
        return "{" + _placed(text[start + 1 : end], _kind(key) if key == "arguments" else "input", book), end
    return text[start], start + 1


def string_end(text: str, at: int, opening: str) -> int:
    """Where a string literal ends, at a quote with as many backslashes as opened it; else at the end of the row."""
    row = text.find("\n", at)
    row = len(text) if row < 0 else row
    slashes = len(opening) - 1
    quote = opening[-1]
    for found in re.compile(rf"(\\*){quote}").finditer(text, at, row):
        if len(found[1]) == slashes or (slashes == 0 and len(found[1]) % 2 == 0):
            return found.start() if slashes or not found[1] else found.end() - 1
    return row


def _balanced(text: str, start: int) -> int:
    """Where the object that opens at `start` closes, strings skipped; else the end of the row."""
    depth, pos = 0, start
    row = text.find("\n", start)
    row = len(text) if row < 0 else row
    while pos < row:
        char = text[pos]
        if char in "\"'":
            pos = string_end(text, pos + 1, char)
        elif char in "{[(":
            depth += 1
        elif char in "}])":
            depth -= 1
            if not depth:
                return pos
        pos += 1
    return row
