"""What lecture 04 alone needs: its experiments, figures, data and claims."""
