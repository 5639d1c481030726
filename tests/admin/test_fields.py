"""The form field that takes an amount with its period in one text."""

import pytest
from django.core.exceptions import ValidationError

from tenantlimits.admin.fields import Amount, AmountField

FIELD = AmountField(label="Amount", help_text="")


@pytest.mark.parametrize(
    ("text", "units", "period_seconds"),
    [
        ("500/min", 500, 60),
        ("12/3s", 12, 3),
        ("10000/day", 10_000, 86_400),
        ("10,000 per day", 10_000, 86_400),
        ("6", 6, None),
        ("0", 0, None),
        (" Unlimited ", None, None),
    ],
)
def test_an_amount_and_its_period_are_typed_in_one_text(text: str, units: int | None, period_seconds: int | None):
    assert FIELD.clean(text) == Amount(units, period_seconds)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "Write amount/period, such as 500/min"),
        ("lots", "'lots' is not a limit"),
        ("500/fortnight", "periods: s, min, h, day, week, month"),
        ("-5/min", "is not a limit"),
        ("0.05/s", "Write 3/min, which is the same rate."),
        ("1000000000001/day", "is more than 1,000,000,000,000"),
        ("9" * 5000, "too long"),
        ("5\x00/min", "is not a limit"),
    ],
)
def test_what_means_nothing_is_answered_with_what_to_write(text: str, words: str):
    with pytest.raises(ValidationError) as refused:
        FIELD.clean(text)

    assert words in " ".join(refused.value.messages)


def test_the_same_amount_written_otherwise_is_no_change():
    assert not FIELD.has_changed(Amount(500, 60), "500 / min")
    assert FIELD.has_changed(Amount(500, 60), "500/h")


def test_an_amount_is_shown_as_it_is_typed():
    assert FIELD.prepare_value(Amount(12, 3)) == "12/3s"
    assert FIELD.prepare_value(Amount(None)) == "unlimited"
    assert FIELD.prepare_value("half typed/") == "half typed/"
