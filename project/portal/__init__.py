"""The demo's SaaS: organisations keep projects, upload files and start exports, by browser and by API."""
