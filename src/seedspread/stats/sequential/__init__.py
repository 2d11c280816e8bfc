"""Looking at a study while it grows: levels that count the looks, and what to expect of them."""
