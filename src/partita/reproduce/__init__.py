"""The figures of papers, made again by simulation or measurement, their claims beside ours."""
