"""Parts whose final names are taken until the parts that they replace have gone."""
