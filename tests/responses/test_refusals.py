"""Refusals as each client gets them, and the fields on what views answer."""

from datetime import datetime, timedelta
from html.parser import HTMLParser

import pytest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.utils import translation
from django.views.decorators.cache import cache_control
from hypothesis import given
from hypothesis import strategies as st

from tenantlimits.engine.memory import MemoryEngine
from tenantlimits.responses import add_fields, refusal
from tests.engine.builders import NOON, Caller, Clock, bucket, overridden
from tests.responses.builders import asking, body_of, responses

FIREFOX = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


def test_fields_are_added_to_what_a_view_answers(caller):
    response, stream = HttpResponse(), StreamingHttpResponse()
    decision = caller(bucket(10, name="rate")).admit()

    add_fields(response, decision)
    add_fields(stream, decision)

    assert response["RateLimit"] == stream["RateLimit"] == '"rate";r=9;t=6'
    assert not response.has_header("Cache-Control")
    assert not response.has_header("Retry-After")


@pytest.mark.parametrize("header", ["RateLimit", "RateLimit-Policy"])
def test_fields_that_a_view_has_set_stay_and_are_not_mixed_with_ours(caller, header):
    response = HttpResponse(headers={header: '"own";r=1;q=1'})

    add_fields(response, caller(bucket(10)).admit())

    assert {name: value for name, value in response.items() if "limit" in name.lower()} == {header: '"own";r=1;q=1'}


@pytest.mark.parametrize("status", [429, 503])
def test_a_views_own_refusal_is_left_as_it_is(caller, status):
    """C173."""
    headers = {"Retry-After": "Fri, 31 Dec 2027 23:59:59 GMT", "Content-Type": "text/plain"}
    response = HttpResponse("own", status=status, headers=headers)

    add_fields(response, caller(bucket(10)).admit())

    assert dict(response.items()) == headers


def test_an_error_of_a_caller_who_is_refused_afterwards_is_not_told_to_retry(refused):
    response = HttpResponse(status=401)

    add_fields(response, refused("bucket"))

    assert not response.has_header("Retry-After")
    assert response["RateLimit"].startswith('"token_bucket";r=0;t=')


def test_a_refusal_that_another_surface_has_written_gets_what_it_lacks(refused):
    """Such as DRF's, whose own handler sets Retry-After."""
    response = HttpResponse(status=429, headers={"Retry-After": "99"})

    add_fields(response, refused("bucket"))

    assert response["Retry-After"] == "99"
    assert response["Cache-Control"] == "no-store"
    assert response.has_header("RateLimit-Policy")


@pytest.mark.parametrize(
    "control", ["public, max-age=300", "s-maxage=60", "max-age=300", "PUBLIC", "max-age=300, stale-if-error=5"]
)
def test_an_answer_that_a_shared_cache_may_keep_tells_nobodys_limits(caller, control):
    """C171."""
    response = HttpResponse(headers={"Cache-Control": control})

    add_fields(response, caller(bucket(10)).admit())

    assert not response.has_header("RateLimit")
    assert not response.has_header("RateLimit-Policy")


@pytest.mark.parametrize("control", ["private, max-age=300", "no-store", "max-age=0", "no-cache", "public, no-store"])
def test_an_answer_that_is_the_callers_own_tells_its_limits(caller, control):
    """C171."""
    response = HttpResponse(headers={"Cache-Control": control})

    add_fields(response, caller(bucket(10)).admit())

    assert response.has_header("RateLimit")


def test_a_refusal_of_a_public_view_is_never_cached(refused):
    """C170."""
    decision = refused("bucket")

    @cache_control(public=True, max_age=300)
    def view(request: HttpRequest) -> HttpResponse:
        response = refusal(decision, request)
        response["ETag"] = '"1"'
        return response

    response = view(asking())
    add_fields(response, decision)

    assert response["Cache-Control"] == "no-store"
    assert not response.has_header("ETag")


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        (None, "application/problem+json"),
        ("*/*", "application/problem+json"),
        ("application/json", "application/problem+json"),
        ("application/problem+json", "application/problem+json"),
        ("application/json, text/html;q=0.9", "application/problem+json"),
        ("text/html;q=0.1, */*;q=0.5", "application/problem+json"),
        ("image/avif,image/webp,*/*;q=0.8", "application/problem+json"),
        ("application/xml", "application/problem+json"),
        ("text/html;q=0", "application/problem+json"),
        ("", "application/problem+json"),
        ("; q=x,,/;=", "application/problem+json"),
        ("text/html", "text/html; charset=utf-8"),
        ("text/*", "text/html; charset=utf-8"),
        (FIREFOX, "text/html; charset=utf-8"),
        ("text/html, application/json;q=0.9", "text/html; charset=utf-8"),
    ],
)
def test_browsers_get_a_page_and_everybody_else_problem_json(refused, accept, content_type):
    """C174."""
    response = refusal(refused("bucket"), asking(accept))

    assert response["Content-Type"] == content_type
    assert response.status_code == 429
    assert response["Cache-Control"] == "no-store"
    assert response["Vary"] == "Accept"
    assert response.has_header("Retry-After")
    assert response.has_header("RateLimit")


@given(accept=st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=80))
def test_no_accept_field_turns_a_refusal_into_an_error(accept):
    clock = Clock()
    decision = Caller(MemoryEngine(clock=clock), clock, (bucket(0),)).admit()

    assert refusal(decision, asking(accept)).status_code == 403


class Page(HTMLParser):
    """Text, links, tags and attributes of a page."""

    def __init__(self, response: HttpResponse) -> None:
        super().__init__()
        self.text, self.links, self.tags, self.attributes = "", [], [], []
        self.feed(response.content.decode())
        self.text = " ".join(self.text.split())

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        self.links += [value for name, value in attrs if name == "href" and tag == "a"]

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize("kind", ["bucket", "log", "quota", "cap", "fuse", "never", "block", "store", "nobody"])
def test_the_page_tells_the_same_facts_as_the_body(refused, kind):
    """C174."""
    decision = refused(kind)
    body = body_of(refusal(decision, asking("application/json")))

    page = Page(refusal(decision, asking(FIREFOX)))

    facts = [body["title"], str(body["status"]), body["code"], body["lane"], body["instance"].rpartition(":")[2]]
    if "limit" in body:
        facts += [body["limit"]["name"], body["tier"], "Pro"]
        assert body["usage_url"] in page.links
    if body["retryable"]:
        facts += [f"({body['retry_after_seconds']} s)", "Try again in"]
    if "reset_at" in body:
        facts.append(f"{datetime.fromisoformat(body['reset_at']):%-d %b %Y, %H:%M:%S} UTC")
    for fact in facts:
        assert fact in page.text


def test_the_page_links_to_more_and_to_the_docs_where_the_settings_name_them(refused):
    with responses(upgrade_url="/more/", docs_url="/docs/"):
        page = Page(refusal(refused("bucket"), asking("text/html")))

    assert {"http://app.example.com/more/", "http://app.example.com/docs/"} <= set(page.links)


def test_the_page_has_nothing_inline_and_nothing_that_a_name_brought_along(caller):
    """C185, and the content security policy `default-src 'self'`."""
    markup = "\"><script>alert(1)</script><img src=x onerror=alert(1)>'"
    raised = overridden(bucket(1, name=markup), bucket(2, name=markup), until=NOON + timedelta(days=1))
    acme = caller(raised)
    acme.plan().tier_name = acme.plan().tier = acme.plan().lane = markup
    acme.admit(2)

    response = refusal(acme.admit(), asking("text/html"))

    page = Page(response)
    assert markup in page.text
    assert {"script", "style", "img"}.isdisjoint(page.tags)
    assert not [name for name in page.attributes if name == "style" or name.startswith("on")]
    assert "{" not in response.content.decode()


def test_the_page_speaks_the_language_of_the_visitor(refused):
    with translation.override("ar"):
        response = refusal(refused("bucket"), asking("text/html"))

    assert b'<html lang="ar" dir="rtl">' in response.content
