"""A mailed report says nothing of a Prometheus: where it is, what it is asked, who asks, what it says."""

from __future__ import annotations

import json
from pathlib import Path

import synthetic
from unit.checks.test_slis import line, wanted

from chaos.report import render

SECRETS = ("prom.acme", "acme", "checkout_total", "orders-eu", "ACME_TOKEN", "billing-7")
QUERY = 'sum(rate(checkout_total{cell="orders-eu"}[30s]))'
ACCESS = {"user": "acme-bot", "password": "env:ACME_TOKEN", "token": None, "ca": "certs/acme.pem"}


def test_a_redacted_report_names_neither_server_nor_query(tmp_path: Path) -> None:
    story = synthetic.slow_zone()
    story.expect = [wanted("max", "<", 0.01)]
    folder = story.write(tmp_path / "run")
    plan = json.loads((folder / "plan.json").read_text())
    plan["experiment"]["slis"] = {
        "checkout_errors": {"prometheus": "http://prom.acme:9090/tenants/acme", "query": QUERY, "every": 5.0}
        | {"oldest": 60.0, "fresh": "time() - max(timestamp(checkout_total))", "access": ACCESS}
    }
    plan["steps"][0]["step"] = f"as {QUERY} of http://prom.acme:9090/tenants/acme says"
    (folder / "plan.json").write_text(json.dumps(plan))
    why = {"why": "the query is refused", "said": f'found series {{cell="billing-7"}} in {QUERY}'}
    lines = [line(31 + 5.0 * k, None, **why) for k in range(8)]
    (folder / "history" / "slis.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    page = render(folder)
    assert "billing-7" in page.read_text() and "the query is refused" in page.read_text()
    redacted = render(folder, redact=True).parent
    text = "".join(file.read_text(errors="replace") for file in sorted(redacted.rglob("*")) if file.is_file())
    assert "checkout_errors" in text and "the query is refused" in text
    assert [secret for secret in SECRETS if secret in text] == []


def test_a_redacted_report_names_no_alert(tmp_path: Path) -> None:
    story = synthetic.slow_zone()
    story.expect = [wanted("max", "<", 0.01)]
    folder = story.write(tmp_path / "run")
    plan = json.loads((folder / "plan.json").read_text())
    rule = {"alert": "AcmeRed", "expr": 'shop_status{cell="orders-eu"} == 2', "for_": 60.0}
    labels = {"severity": "critical", "team": "billing-7"}
    plan["experiment"]["slis"] = {
        "checkout_errors": {"prometheus": "http://prom.acme:9090", "rules": "acme/alerts.yml", "every": 5.0}
        | {"oldest": 60.0, "alert": ["AcmeRed"], "labels": labels, "alerts": [rule | {"labels": labels}]}
    }
    (folder / "plan.json").write_text(json.dumps(plan))
    lines = [line(31 + 5.0 * k, 1.0, alerts=["AcmeRed"]) for k in range(8)]
    (folder / "history" / "slis.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    page = render(folder)
    redacted = render(folder, redact=True).parent
    text = "".join(file.read_text(errors="replace") for file in sorted(redacted.rglob("*")) if file.is_file())
    assert page.is_file() and "checkout_errors" in text
    assert [secret for secret in ("acme", "AcmeRed", "orders-eu", "billing-7") if secret in text] == []
