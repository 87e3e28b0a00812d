"""What happens first among things at the same virtual time: by kind, then id, then request."""

FINISHED, ENCODED, ARRIVED, CREDITED, FED, CAME = range(6)
