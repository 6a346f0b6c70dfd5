import type { ResourcesGPU, ResourcesNetwork, ResourcesPCIDevice, ResourcesStorage, ResourcesUSB } from '@keelson/api';
import { release } from 'node:os';
import type { SysFs } from './sysfs.ts';

type NetworkCard = ResourcesNetwork['cards'][number];
type Disk = ResourcesStorage['disks'][number];
type GpuCard = ResourcesGPU['cards'][number];
type UsbDevice = ResourcesUSB['devices'][number];

const PCI = 'sys/bus/pci/devices';
const SECTOR = 512;

async function driverOf(sys: SysFs, device: string): Promise<{ driver: string; driver_version: string }> {
  const driver = await sys.linkName(`${device}/driver`);
  const version = await sys.text(`sys/module/${driver}/version`);
  return { driver, driver_version: driver === '' ? '' : version === '' ? release() : version };
}

async function idOf(sys: SysFs, path: string): Promise<string> {
  return (await sys.text(path)).replace(/^0x/, '');
}

/** Address of the PCI device a device hangs on; empty when it is on none. */
async function pciAddressOf(sys: SysFs, deviceLink: string): Promise<string> {
  const parts = (await sys.link(deviceLink)).split('/');
  return parts.findLast((part) => /^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]$/.test(part)) ?? '';
}

export async function readPci(sys: SysFs): Promise<{ devices: ResourcesPCIDevice[]; total: number }> {
  const names = await sys.list(PCI);
  const devices = await Promise.all(
    names.map(async (name) => {
      const folder = `${PCI}/${name}`;
      return {
        ...(await driverOf(sys, folder)),
        numa_node: await sys.numaNode(folder),
        pci_address: name,
        vendor: '',
        vendor_id: await idOf(sys, `${folder}/vendor`),
        product: '',
        product_id: await idOf(sys, `${folder}/device`),
        iommu_group: Number(await sys.linkName(`${folder}/iommu_group`)) || 0,
        vpd: {},
      };
    }),
  );
  return { devices, total: devices.length };
}

export async function readNetwork(sys: SysFs): Promise<ResourcesNetwork> {
  const names = await sys.list('sys/class/net');
  const cards = (await Promise.all(names.map((name) => readCard(sys, name)))).filter((card) => card !== undefined);
  return { cards, total: cards.length };
}

async function readCard(sys: SysFs, name: string): Promise<NetworkCard | undefined> {
  const folder = `sys/class/net/${name}`;
  const device = `${folder}/device`;
  if ((await sys.link(device)) === '') return undefined; // virtual: bridges, veths, tunnels
  const speed = await sys.number(`${folder}/speed`);
  const duplex = await sys.text(`${folder}/duplex`);
  const pci = await pciAddressOf(sys, folder);
  return {
    ...(await driverOf(sys, device)),
    ports: [
      {
        id: name,
        address: await sys.text(`${folder}/address`),
        port: await sys.number(`${folder}/dev_port`),
        protocol: 'ethernet',
        auto_negotiation: false,
        link_detected: (await sys.text(`${folder}/carrier`)) === '1',
        ...(speed > 0 ? { link_speed: speed } : {}),
        ...(duplex === 'full' || duplex === 'half' ? { link_duplex: duplex } : {}),
      },
    ],
    numa_node: await sys.numaNode(device),
    ...(pci === '' ? {} : { pci_address: pci }),
    vendor_id: await idOf(sys, `${device}/vendor`),
    product_id: await idOf(sys, `${device}/device`),
  };
}

export async function readStorage(sys: SysFs): Promise<ResourcesStorage> {
  const names = await sys.list('sys/class/block');
  const disks = (await Promise.all(names.map((name) => readDisk(sys, name)))).filter((disk) => disk !== undefined);
  return { disks, total: disks.length };
}

async function readDisk(sys: SysFs, id: string): Promise<Disk | undefined> {
  const folder = `sys/class/block/${id}`;
  // Partitions are shown with their disk; loop, device-mapper and ram devices are no hardware.
  if ((await sys.link(`${folder}/device`)) === '') return undefined;
  const pci = await pciAddressOf(sys, folder);
  const model = await sys.text(`${folder}/device/model`);
  const serial = await sys.text(`${folder}/device/serial`);
  return {
    id,
    device: await sys.text(`${folder}/dev`),
    type: busOf(id, await sys.linkName(`${folder}/device/subsystem`)),
    read_only: (await sys.text(`${folder}/ro`)) === '1',
    size: (await sys.number(`${folder}/size`)) * SECTOR,
    removable: (await sys.text(`${folder}/removable`)) === '1',
    numa_node: await sys.numaNode(`${folder}/device`),
    block_size: 0,
    rpm: await sys.number(`${folder}/queue/rotational`),
    device_id: '',
    partitions: await readPartitions(sys, id),
    ...(model === '' ? {} : { model }),
    ...(serial === '' ? {} : { serial }),
    ...(pci === '' ? {} : { pci_address: pci }),
  };
}

function busOf(id: string, subsystem: string): string {
  if (id.startsWith('nvme')) return 'nvme';
  return subsystem;
}

async function readPartitions(sys: SysFs, disk: string): Promise<Disk['partitions']> {
  const entries = (await sys.list(`sys/class/block/${disk}`)).filter((name) => name.startsWith(disk));
  const partitions = await Promise.all(
    entries.map(async (id) => {
      const folder = `sys/class/block/${disk}/${id}`;
      return {
        id,
        device: await sys.text(`${folder}/dev`),
        read_only: (await sys.text(`${folder}/ro`)) === '1',
        size: (await sys.number(`${folder}/size`)) * SECTOR,
        partition: await sys.number(`${folder}/partition`),
      };
    }),
  );
  return partitions.filter(({ partition }) => partition > 0);
}

export async function readGpu(sys: SysFs): Promise<ResourcesGPU> {
  const names = (await sys.list('sys/class/drm')).filter((name) => /^card\d+$/.test(name));
  const cards = await Promise.all(names.map((name) => readGpuCard(sys, name)));
  return { cards, total: cards.length };
}

async function readGpuCard(sys: SysFs, name: string): Promise<GpuCard> {
  const folder = `sys/class/drm/${name}`;
  const render = (await sys.list(`${folder}/device/drm`)).find((entry) => entry.startsWith('renderD'));
  const pci = await pciAddressOf(sys, folder);
  return {
    ...(await driverOf(sys, `${folder}/device`)),
    drm: {
      id: Number(name.slice(4)),
      card_name: name,
      card_device: await sys.text(`${folder}/dev`),
      ...(render === undefined
        ? {}
        : { render_name: render, render_device: await sys.text(`sys/class/drm/${render}/dev`) }),
    },
    numa_node: await sys.numaNode(`${folder}/device`),
    ...(pci === '' ? {} : { pci_address: pci }),
    vendor_id: await idOf(sys, `${folder}/device/vendor`),
    product_id: await idOf(sys, `${folder}/device/device`),
  };
}

export async function readUsb(sys: SysFs): Promise<ResourcesUSB> {
  const names = (await sys.list('sys/bus/usb/devices')).filter((name) => /^\d+-[\d.]+$/.test(name));
  const devices = await Promise.all(names.map((name) => readUsbDevice(sys, `sys/bus/usb/devices/${name}`)));
  return { devices, total: devices.length };
}

async function readUsbDevice(sys: SysFs, folder: string): Promise<UsbDevice> {
  const interfaces = (await sys.list(folder)).filter((name) => name.includes(':'));
  return {
    bus_address: await sys.number(`${folder}/busnum`),
    device_address: await sys.number(`${folder}/devnum`),
    product: await sys.text(`${folder}/product`),
    product_id: await sys.text(`${folder}/idProduct`),
    vendor: await sys.text(`${folder}/manufacturer`),
    vendor_id: await sys.text(`${folder}/idVendor`),
    speed: await sys.number(`${folder}/speed`),
    interfaces: await Promise.all(
      interfaces.map(async (name) => ({
        ...(await driverOf(sys, `${folder}/${name}`)),
        class_id: await hex(sys, `${folder}/${name}/bInterfaceClass`),
        number: await hex(sys, `${folder}/${name}/bInterfaceNumber`),
        subclass_id: await hex(sys, `${folder}/${name}/bInterfaceSubClass`),
      })),
    ),
  };
}

async function hex(sys: SysFs, path: string): Promise<number> {
  return Number.parseInt((await sys.text(path)) || '0', 16);
}
