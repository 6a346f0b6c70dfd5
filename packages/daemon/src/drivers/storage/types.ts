export type VolumeType = 'container' | 'virtual-machine' | 'image' | 'custom';
export type ContentType = 'filesystem' | 'block' | 'iso';
