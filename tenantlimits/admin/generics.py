"""Django's own admin and form classes, with the type arguments that they take only while types are checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from django import forms
from django.contrib import admin
from django.forms import models

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin, StackedInline, TabularInline
    from django.forms import ModelForm
    from django.forms.models import BaseInlineFormSet
else:
    M = TypeVar("M")
    P = TypeVar("P")
    F = TypeVar("F")

    class ModelAdmin(admin.ModelAdmin, Generic[M]):
        """`ModelAdmin[Tier]`."""

    class StackedInline(admin.StackedInline, Generic[M, P]):
        """`StackedInline[Limit, Tier]`."""

    class ModelForm(forms.ModelForm, Generic[M]):
        """`ModelForm[Tier]`."""

    class BaseInlineFormSet(models.BaseInlineFormSet, Generic[M, P, F]):
        """`BaseInlineFormSet[Limit, Tier, LimitForm]`."""

    class TabularInline(admin.TabularInline, Generic[M, P]):
        """`TabularInline[Share, Tier]`."""


__all__ = ["BaseInlineFormSet", "ModelAdmin", "ModelForm", "StackedInline", "TabularInline"]
