// The programs of tests/peers/export_models.py. Test data.

/** Those that are quick to export. */
export const QUICK = [
  ..."resnet18 squeezenet encoder decoder gpt gpt_by_hand lstm gru unet unet_3d autoencoder".split(" "),
  ..."graph physics fno experts bert unet_odd codebook memory waves types statistics".split(" "),
];

export const ALL = [
  ...QUICK,
  ..."resnet50 mobilenet_v3 efficientnet_b0 convnext_tiny vit_b_16 swin_t regnet densenet".split(" "),
  ..."shufflenet deeplabv3 fcn r3d_18 swin_odd".split(" "),
];
