import type { Resources, ResourcesSystem } from '@keelson/api';
import { readCpu } from './cpu.ts';
import { readGpu, readNetwork, readPci, readStorage, readUsb } from './devices.ts';
import { readMemory } from './memory.ts';
import { SysFs } from './sysfs.ts';

/** The host's hardware as the kernel shows it; starts no process. */
export async function readResources(sys: SysFs = new SysFs()): Promise<Resources> {
  const [cpu, memory, gpu, network, storage, usb, pci, system] = await Promise.all([
    readCpu(sys),
    readMemory(sys),
    readGpu(sys),
    readNetwork(sys),
    readStorage(sys),
    readUsb(sys),
    readPci(sys),
    readSystem(sys),
  ]);
  return { cpu, memory, gpu, network, storage, usb, pci, system };
}

const DMI = 'sys/class/dmi/id';

async function readSystem(sys: SysFs): Promise<ResourcesSystem> {
  const field = (name: string): Promise<string> => sys.text(`${DMI}/${name}`);
  const known = (await sys.list(DMI)).length > 0;
  return {
    uuid: await field('product_uuid'),
    vendor: await field('sys_vendor'),
    product: await field('product_name'),
    family: await field('product_family'),
    version: await field('product_version'),
    sku: await field('product_sku'),
    serial: await field('product_serial'),
    type: await systemType(sys, known),
    firmware: known
      ? { vendor: await field('bios_vendor'), date: await field('bios_date'), version: await field('bios_version') }
      : null,
    chassis: known
      ? {
          vendor: await field('chassis_vendor'),
          type: await field('chassis_type'),
          serial: await field('chassis_serial'),
          version: await field('chassis_version'),
        }
      : null,
    motherboard: known
      ? {
          vendor: await field('board_vendor'),
          product: await field('board_name'),
          serial: await field('board_serial'),
          version: await field('board_version'),
        }
      : null,
  };
}

async function systemType(sys: SysFs, hasFirmware: boolean): Promise<string> {
  if (!hasFirmware) return 'container';
  return /^flags.*\bhypervisor\b/m.test(await sys.text('proc/cpuinfo')) ? 'virtual-machine' : 'physical';
}
