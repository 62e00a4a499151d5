from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pytest

from eqben_builder.building import build, read_manifest, read_records, verify
from eqben_builder.formats import PairRow, Picture, encode_png, read_any, write_as
from eqben_builder.micro.builder import MicroBuilder
from eqben_builder.pages import apply_votes, write_results_page, write_review_page
from eqben_builder.pages.densities import density_charts, smoothed
from eqben_builder.pages.results import margins
from eqben_builder.pages.review import read_votes
from eqben_builder.scoring import equivariance_scores

NASTY = "</script><script>alert(1)</script> \"'&<b>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages") / "built"
    build(MicroBuilder(size=24), folder, pairs=3)
    return folder


@pytest.fixture(scope="module")
def rows(folder):
    return list(read_any(folder))


def nasty_row(name=NASTY):
    black, white = (Picture(content=encode_png(np.full((8, 8, 3), level, np.uint8))) for level in (0, 255))
    return PairRow(name, "micro", NASTY, black, white, f"one {NASTY}", f"two {NASTY}")


ODD = "\x1b[2J\x9b31m\u202egod\u2066\u2028\x07"


def test_no_page_holds_what_a_browser_obeys(tmp_path):
    """Every writer of a page: names, captions, notes and titles of strangers turn no line round."""
    import eqben_builder.pages as pages
    from eqben_builder.scoring import Share
    from eqben_builder.suites import Gallery, SuiteLine, SuiteTable
    from eqben_builder.suites.galleries import GalleryLine

    black, white = (Picture(content=encode_png(np.full((8, 8, 3), level, np.uint8))) for level in (0, 255))
    row = PairRow(ODD, ODD, ODD, black, white, f"one {ODD}", f"two {ODD}")
    share = Share(0.5, 0.25, 0.75, 0.5)
    line = SuiteLine(ODD, ODD, 1, 0, share, None, {ODD: share}, None, {ODD: 0.5})
    table = SuiteTable(ODD, line, (line,), (line,), (ODD,), {})
    searched = (Gallery(ODD, (black,), (ODD,), {}, (ODD,)), (GalleryLine(ODD, ODD, ODD, share, 1, {ODD: 0.5}),))
    writers = {
        "write_results_page": lambda path: write_results_page([row], {ODD: np.eye(2)[None]}, path, title=ODD),
        "write_suites_page": lambda path: pages.write_suites_page(
            {ODD: [table]}, path, galleries={ODD: [searched]}, title=ODD
        ),
        "write_review_page": lambda path: write_review_page([row], path, title=ODD),
    }
    assert set(writers) == {name for name in pages.__all__ if name.startswith("write_")}
    for name, write in writers.items():
        text = write(tmp_path / f"{name}.html").read_text(encoding="utf-8")
        assert "\\x1b[2J\\x9b31m\\u202egod" in text, name
        assert not set(ODD) - set("[2J31mgod") & set(text), name


class Page(HTMLParser):
    """Counts elements, and complains about any that are not closed."""

    VOID = frozenset({"meta", "img", "input", "br", "line", "rect", "polygon", "polyline"})

    def __init__(self, text):
        super().__init__()
        self.open, self.count, self.attributes, self.texts = [], {}, [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.count[tag] = self.count.get(tag, 0) + 1
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def test_the_results_page_shows_its_figures_and_escapes_names(tmp_path, rows):
    rng = np.random.default_rng(0)
    some = [*rows, nasty_row()]
    scores = {NASTY: rng.standard_normal((10, 2, 2)) + np.eye(2), "other": rng.standard_normal((10, 2, 2))}
    text = write_results_page(some, scores, tmp_path / "new" / "r.html", title=NASTY, worst=4).read_text()
    page = Page(text)
    assert not page.open
    assert "script" not in page.count
    assert page.count["img"] == 8
    assert page.texts.count(NASTY) >= 3
    assert not [value for name, value in page.attributes if name in ("src", "href") and not value.startswith("data:")]
    again = write_results_page(some, scores, tmp_path / "again.html", title=NASTY, worst=4).read_text()
    assert again == text
    with pytest.raises(ValueError, match="no scores"):
        write_results_page(some, {}, tmp_path / "x.html")
    with pytest.raises(ValueError, match="10 pairs"):
        write_results_page(some[:9], scores, tmp_path / "x.html")


def test_the_worst_pairs_are_those_of_the_smallest_margin(tmp_path, rows):
    scores = np.tile(np.eye(2), (9, 1, 1))
    scores[4] = [[0.0, 1.0], [1.0, 0.0]]
    scores[7, 0, 1] = 0.9
    assert np.argsort(margins(scores))[:2].tolist() == [4, 7]
    text = write_results_page(rows, {"m": scores}, tmp_path / "r.html", worst=1).read_text()
    assert f"{rows[4].id}, " in text
    assert f"{rows[7].id}, " not in text
    constant = write_results_page(rows, {"m": np.ones((9, 2, 2))}, tmp_path / "c.html", worst=0).read_text()
    assert "nan" not in constant.lower().replace("nano", "")


def test_the_review_page_holds_its_pairs_and_nothing_breaks_out(tmp_path, rows):
    path = write_review_page([*rows, nasty_row()], tmp_path / "r.html", title=NASTY)
    page = Page(path.read_text())
    assert not page.open
    assert page.count["script"] == 2
    data = next(text for text in page.texts if text.startswith('{"source"'))
    assert not set(data) & set("<>&"), "within a script element these could end it or open a comment"
    embedded = json.loads(data)
    assert embedded["pairs"][-1]["id"] == NASTY
    assert embedded["pairs"][-1]["captions"] == [f"one {NASTY}", f"two {NASTY}"]
    assert embedded["pairs"][0]["images"][0].startswith("data:image/png;base64,")


def test_what_cannot_be_reviewed_is_refused(tmp_path, rows, monkeypatch):
    with pytest.raises(ValueError, match="no pairs to review"):
        write_review_page([], tmp_path / "r.html")
    with pytest.raises(ValueError, match=r"two pairs have the id 'micro-"):
        write_review_page([rows[0], rows[0]], tmp_path / "r.html")
    monkeypatch.setattr("eqben_builder.pages.review.EMBED_LIMIT", 1500)
    with pytest.raises(ValueError, match=r"pairs take more than 0 MB: review fewer pairs"):
        write_review_page(rows, tmp_path / "r.html")


DRIVER = """
const press = (key) => document.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
at("accept").focus(); at("accept").dispatchEvent(new MouseEvent("click", { detail: 1, bubbles: true }));
const focused = document.activeElement === at("accept"); press("u"); press("k");
press("a"); press("r"); press("ArrowRight"); press("r"); press("u"); press("r");
press("k"); press("k"); press("k");
at("note").value = "too small </pre>"; at("note").dispatchEvent(new Event("change")); press("r");
votes = {}; load(); choose(); show();
press("k"); press("k");
at("reviewer").value = "R";
const before = at("image0").getAttribute("src");
press(" ");
const swapped = at("image1").getAttribute("src") === before && at("image0").getAttribute("src") !== before;
at("filter").value = "reject"; at("filter").dispatchEvent(new Event("change"));
const out = document.createElement("textarea");
out.textContent = JSON.stringify({ votes: exported(), count: at("count").textContent, swapped, focused,
  where: at("where").textContent, marks: document.querySelectorAll("mark").length });
document.body.append(out);
"""


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium to drive the page with")
def test_the_review_page_is_driven_by_keyboard_and_keeps_its_votes(tmp_path, folder, rows):
    path = write_review_page(rows, tmp_path / "r.html")
    path.write_text(path.read_text().replace("</body>", f"<script>{DRIVER}</script></body>"))
    done = subprocess.run(
        ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
         "--virtual-time-budget=4000", "--dump-dom", path.as_uri()],
        capture_output=True, text=True, timeout=100, check=True,
    )  # fmt: skip
    (content,) = re.findall(r"<textarea>(.*)</textarea>", done.stdout, flags=re.DOTALL)
    record = json.loads(content.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    assert record["swapped"]
    assert not record["focused"], "the space bar would vote again"
    assert record["count"] == "3 of 9 decided, 2 rejected"
    assert record["where"] == "1 / 2"
    assert record["marks"] >= 1
    exported = record["votes"]
    assert {name: vote.get("vote") for name, vote in exported["votes"].items()} == {
        rows[0].id: "accept", rows[1].id: "reject", rows[3].id: "reject"
    }  # fmt: skip
    noted = [name for name, vote in exported["votes"].items() if vote.get("note") == "too small </pre>"]
    assert noted == [rows[1].id]
    votes = tmp_path / "votes.json"
    votes.write_text(json.dumps(exported))
    review = apply_votes(folder, [votes], tmp_path / "kept")
    assert (review.kept, review.rejected, review.undecided, review.disputed) == (7, 2, 6, 0)


def cast(path, rows, folder_rows, **votes):
    from eqben_builder.pages.review import source_of

    shown = source_of((row.id, row.caption0, row.caption1) for row in folder_rows)
    votes_by_id = {rows[int(name[1:])].id: {"vote": vote, "note": f"n{name}"} for name, vote in votes.items()}
    path.write_text(
        json.dumps({"schema": "eqben-votes/1", "source": shown, "reviewer": path.stem, "votes": votes_by_id})
    )
    return path


def test_votes_leave_out_pairs_and_list_them(tmp_path, folder, rows):
    first = cast(tmp_path / "one.json", rows, rows, p0="reject", p1="accept", p2="reject")
    second = cast(tmp_path / "two.json", rows, rows, p0="accept", p1="accept", p2="reject")
    any_ = apply_votes(folder, [first, second], tmp_path / "any")
    assert (any_.kept, any_.rejected, any_.undecided, any_.disputed) == (7, 2, 6, 1)
    most = apply_votes(folder, [first, second], tmp_path / "most", rule="majority")
    assert (most.kept, most.rejected, most.undecided) == (8, 1, 6)
    errata = json.loads(any_.errata.read_text())
    assert [pair["id"] for pair in errata["pairs"]] == [rows[0].id, rows[2].id]
    assert errata["pairs"][0]["votes"] == [
        {"reviewer": "one", "vote": "reject", "note": "np0"},
        {"reviewer": "two", "vote": "accept", "note": "np0"},
    ]
    records = list(read_records(any_.output))
    assert [record.id for record in records] == [row.id for k, row in enumerate(rows) if k not in (0, 2)]
    manifest = read_manifest(any_.output)
    assert manifest["pairs"] == 7
    assert manifest["review"]["rejected"] == 2
    assert manifest["review"]["of"] == read_manifest(folder)["hash"]
    assert set(manifest["files"]) == {
        path.relative_to(any_.output).as_posix()
        for path in any_.output.rglob("*")
        if path.is_file() and path.name != "manifest.json"
    }
    assert verify(any_.output).failures == ()
    from_flat = apply_votes(write_as(rows, tmp_path / "again", "eqben-flat"), [first], tmp_path / "folder")
    assert (from_flat.kept, read_manifest(from_flat.output)["pairs"]) == (7, 7)
    assert "errata.json" in read_manifest(from_flat.output)["files"]
    flat = write_as(rows, tmp_path / "flat", "eqben-flat")
    (flat / "pairs.json").rename(tmp_path / "alone.json")
    elsewhere = apply_votes(tmp_path / "alone.json", [first], tmp_path / "elsewhere", form="eqben-flat", images=flat)
    assert (elsewhere.kept, len(list(read_any(elsewhere.output)))) == (7, 7)
    (tmp_path / "alone.json").rename(flat / "pairs.json")
    other = apply_votes(flat, [first], tmp_path / "other", form="eqben-flat")
    assert [row.id for row in read_any(other.output)] == [row.id for k, row in enumerate(rows) if k not in (0, 2)]


def test_votes_on_other_pairs_are_refused(tmp_path, folder, rows):
    part = cast(tmp_path / "part.json", rows, rows[:4], p0="reject")
    with pytest.raises(ValueError, match="was cast on other pairs"):
        apply_votes(folder, [part], tmp_path / "out")
    assert apply_votes(folder, [part], tmp_path / "out", partial=True).kept == 8
    with pytest.raises(FileExistsError, match="exists already"):
        apply_votes(folder, [part], tmp_path / "out", partial=True)
    strange = tmp_path / "strange.json"
    strange.write_text(part.read_text().replace(rows[0].id, "someone-else"))
    with pytest.raises(ValueError, match=r"strange\.json votes on 'someone-else', which is no pair"):
        apply_votes(folder, [strange], tmp_path / "new", partial=True)
    everything = cast(tmp_path / "all.json", rows, rows, **{f"p{k}": "reject" for k in range(9)})
    with pytest.raises(ValueError, match="nothing is left of the 9 pairs"):
        apply_votes(folder, [everything], tmp_path / "new")
    with pytest.raises(ValueError, match="no files of votes"):
        apply_votes(folder, [], tmp_path / "new")
    with pytest.raises(ValueError, match="rule = 'all'"):
        apply_votes(folder, [everything], tmp_path / "new", rule="all")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "line 1: not JSON"),
        ("[]", r"field 'schema' is \[\]"),
        ('{"schema": "eqben-votes/2"}', "field 'schema' is 'eqben-votes/2'"),
        ('{"schema": "eqben-votes/1", "source": "x", "votes": []}', "'source' and 'votes'"),
        ('{"schema": "eqben-votes/1", "source": "x", "votes": {"p": {"vote": "maybe"}}}', "vote on 'p' should be"),
    ],
)
def test_broken_votes_are_refused(tmp_path, text, message):
    (tmp_path / "v.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_votes(tmp_path / "v.json")


@pytest.mark.parametrize("n", [1, 3, 5000])
def test_densities_integrate_to_one(n):
    values = np.abs(np.random.default_rng(0).standard_normal(n))
    grid = np.linspace(0, 8, 400)
    assert smoothed(values, grid).sum() * (grid[1] - grid[0]) == pytest.approx(1.0, abs=0.03)


def test_the_distribution_is_shown_by_subset_with_the_models_over_one_another(tmp_path):
    rng = np.random.default_rng(1)
    black, white = (Picture(content=encode_png(np.full((8, 8, 3), level, np.uint8))) for level in (0, 255))
    subsets = ["kubric" if k % 3 else "ag" for k in range(90)]
    rows = [PairRow(str(k), subset, "", black, white, "one", "two") for k, subset in enumerate(subsets)]
    good = np.eye(2) + 0.05 * rng.standard_normal((90, 2, 2))
    poor = rng.standard_normal((90, 2, 2))
    page = write_results_page(rows, {"good": good, "poor <b>": poor, "flat": np.ones((90, 2, 2))}, tmp_path / "p.html")
    text = page.read_text()
    assert text.count("<svg") == 2  # one a subset
    assert text.count("<polyline") == 6  # three models each
    assert "nan" not in text
    assert "poor &lt;b&gt;" in text
    charts = density_charts({"good": equivariance_scores(good), "poor": equivariance_scores(poor)}, subsets, "e")
    assert [(chart["name"], chart["pairs"]) for chart in charts] == [("ag", 30), ("kubric", 60)]
    assert len({chart["end"] for chart in charts}) == 1
    for chart in charts:
        better, worse = chart["curves"]
        members = np.array(subsets) == chart["name"]
        assert better["median"] == np.median(equivariance_scores(good)[members])
        assert better["median"] < worse["median"]
