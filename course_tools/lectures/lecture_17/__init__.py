"""What lecture 17 alone needs: its figures and claims."""
