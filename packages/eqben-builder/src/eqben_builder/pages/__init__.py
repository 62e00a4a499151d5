"""Static HTML pages: results to read, and pairs to review by keyboard."""

from eqben_builder.pages.results import write_results_page
from eqben_builder.pages.review import Review, apply_votes, read_votes, write_review_page
from eqben_builder.pages.suites import write_suites_page

__all__ = ["Review", "apply_votes", "read_votes", "write_results_page", "write_review_page", "write_suites_page"]
