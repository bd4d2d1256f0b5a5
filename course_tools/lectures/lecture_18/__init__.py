"""What lecture 18 alone needs: its data, experiments, figures and claims."""
