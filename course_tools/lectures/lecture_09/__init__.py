"""What lecture 09 alone needs: its experiments, figures, data and claims."""
