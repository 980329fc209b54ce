"""Models to try Ravnest on. BERT is in `zoo.bert`, which needs `transformers`."""

from zoo.branch_on_training import TwoFacedNet
from zoo.cnn import CNN_Net
from zoo.gpt import GPT, GPTConfig, next_token_loss
from zoo.inception import Inception3, InceptionOutputs, inception_loss, inception_v3
from zoo.lstm import LSTMClassifier
from zoo.resnet import ResNet, resnet18, resnet50
from zoo.two_in_two_out import Estimate, HouseNet, house_loss
from zoo.unet import UNet
from zoo.vit import ViT

__all__ = [
    "CNN_Net",
    "GPT",
    "Estimate",
    "GPTConfig",
    "HouseNet",
    "Inception3",
    "InceptionOutputs",
    "LSTMClassifier",
    "ResNet",
    "TwoFacedNet",
    "UNet",
    "ViT",
    "house_loss",
    "inception_loss",
    "inception_v3",
    "next_token_loss",
    "resnet18",
    "resnet50",
]
