"""What moves propose, and what proposals learn."""
