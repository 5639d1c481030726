"""What members fill in."""

from django import forms


class NameForm(forms.Form):
    """The name of a new project, or of a new API key."""

    name = forms.CharField(max_length=100)


class UploadForm(forms.Form):
    """A file to keep."""

    file = forms.FileField()
