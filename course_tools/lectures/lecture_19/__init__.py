"""What lecture 19 alone needs: its experiments, figures and claims."""
