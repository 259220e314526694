"""From nothing to the first training step done: what a user's script does before it says that it trains."""
from models import prepare

print("step", prepare("mlp")().item(), flush=True)
