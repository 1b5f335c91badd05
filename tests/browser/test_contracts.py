"""Contracts in a browser: a row opens the contract that it names, and a fault leads to its line in the text."""

from __future__ import annotations


def test_each_row_of_a_table_opens_what_it_names(people, site, width):
    page = people(width).enter("administrator").page
    for path in ("contracts", "agents"):
        page.goto(site.page(path))
        covered = page.evaluate("""() => [...document.querySelectorAll("main .table tbody a.open")].map(each => {
          each.scrollIntoView({block: "center"});
          const box = each.getBoundingClientRect();
          const top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
          return top?.closest("a")?.href === each.href;
        })""")
        assert covered, path
        assert all(covered), path


def test_a_fault_leads_to_its_line_in_the_text(people, site):
    person = people("phone").enter("administrator")
    person.expects_complaint("422")
    page = person.page
    person.go("contracts/new?start=example")
    typed = page.get_by_label("Contract document (JSON)")
    typed.fill(typed.input_value().replace('"operation_kind"', '"colour": "red",\n  "operation_kind"'))
    page.get_by_role("button", name="Check document").click()
    person.wait_until("document.activeElement.matches('[data-refused]')")
    page.get_by_role("link", name="Line 19").click()
    selected = "(t => t.value.slice(t.selectionStart, t.selectionEnd))(document.querySelector('#id_document'))"
    assert page.evaluate(selected).strip() == '"colour": "red",'
