"""What drafts and plans cost, exactly as the simulation would say."""
