"""What lecture 08 alone needs: its experiments, figures, data and claims."""
