"""Static HTML pages: results to read, and pairs to review by keyboard."""

from eqben_builder.pages.results import write_results_page, write_suites_page
from eqben_builder.pages.review import apply_votes, write_review_page

__all__ = ["apply_votes", "write_results_page", "write_review_page", "write_suites_page"]
