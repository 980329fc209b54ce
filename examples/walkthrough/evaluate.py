"""Fuses what the providers have saved, and tests it in plain PyTorch."""

import torch
from models import DigitsNet
from task import digits

import ravnest

ravnest.model_fusion(cluster_id=0)

model = DigitsNet()
model.load_state_dict(torch.load("trained/trained_state_dict.pt", weights_only=True))
model.eval()

_, images, _, labels = digits()
with torch.no_grad():
    found = model(torch.tensor(images, dtype=torch.float32)).argmax(1)
print(f"fused model in plain PyTorch: {(found == labels.argmax(1)).float().mean() * 100:.2f} %")
