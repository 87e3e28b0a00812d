"""What the verbs do: from grouped flags to a reply."""
