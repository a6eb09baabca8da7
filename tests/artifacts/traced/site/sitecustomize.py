"""A file of the user's that Python runs when it starts."""

import builtins

builtins.of_the_user = "kept"
