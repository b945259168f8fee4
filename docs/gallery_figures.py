"""Pictures of the package are known to no window system: the gallery finds them among the variables of a script."""

from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst

_SEEN = set()


def figures_of_the_block(block, block_vars, gallery_conf):
    """Save every figure that the block of code has made."""
    files = []
    for value in list(block_vars["example_globals"].values()):
        if isinstance(value, Figure) and id(value) not in _SEEN:
            _SEEN.add(id(value))
            files.append(next(block_vars["image_path_iterator"]))
            value.savefig(files[-1], dpi=110)
    return figure_rst(files, gallery_conf["src_dir"])
