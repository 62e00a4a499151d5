"""Detection: draws, detections and their evaluation by COCO's conventions, and the tables of reports."""
