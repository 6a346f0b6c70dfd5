import { describe, expect, it } from 'vitest';
import { ManualClock } from '../../core/clock.ts';
import { silentLog } from '../../core/log.ts';
import { createLedger } from '../../state/ledger.ts';
import { MemoryStore } from '../../state/memory/memory-store.ts';
import type { ImageAliasRecord, ImageRecord } from '../../state/records/image.ts';
import { ImageCatalog } from './image-catalog.ts';
import { ImageMaintenance } from './image-maintenance.ts';

const DAY = 86_400_000;

const image = (fingerprint: string, more: Partial<ImageRecord>): ImageRecord => ({
  project: 'default',
  fingerprint: fingerprint.padEnd(64, '0'),
  filename: '',
  size: 1,
  type: 'container',
  split: false,
  architecture: 'x86_64',
  public: false,
  autoUpdate: false,
  cached: false,
  properties: {},
  profiles: ['default'],
  createdAt: '2020-01-01T00:00:00Z',
  expiresAt: '1970-01-01T00:00:00Z',
  lastUsedAt: '0001-01-01T00:00:00Z',
  uploadedAt: '2020-01-01T00:00:00Z',
  ...more,
});

async function maintain(records: readonly ImageRecord[], days: string) {
  const ledger = await createLedger(new MemoryStore(), { log: silentLog });
  const images = ledger.collection<ImageRecord>('/images/');
  for (const record of records) await images.create(`${record.project}/${record.fingerprint}`, record);
  const clock = new ManualClock(Date.parse('2020-01-20T00:00:00Z'));
  const deleted: string[] = [];
  const refreshed: string[] = [];
  const config: Record<string, string> = {
    'images.remote_cache_expiry': days,
    'images.auto_update_interval': '6',
  };
  const maintenance = new ImageMaintenance({
    catalog: new ImageCatalog(images, ledger.collection<ImageAliasRecord>('/image-aliases/')),
    deletion: {
      delete: async (_, fingerprint) => {
        deleted.push(fingerprint.slice(0, 1));
      },
    },
    downloads: {
      refresh: async ({ fingerprint }) => {
        refreshed.push(fingerprint.slice(0, 1));
        if (fingerprint.startsWith('f')) throw new Error('server is away');
        return true;
      },
    },
    config: (key) => config[key] ?? '',
    clock,
    log: silentLog,
  });
  return { maintenance, clock, deleted, refreshed };
}

const source = { server: 'https://x', protocol: 'lxd', alias: 'a', certificate: '', imageType: 'container' };

describe('image maintenance', () => {
  const records = [
    image('a', { cached: true }),
    image('b', { cached: true, lastUsedAt: '2020-01-15T00:00:00Z' }),
    image('c', {}),
    image('d', { cached: true, uploadedAt: '2020-01-19T00:00:00Z' }),
  ];

  it('deletes cached images nobody used for the days configured, and no others', async () => {
    const { maintenance, deleted } = await maintain(records, '10');
    await maintenance.run();
    expect(deleted).toEqual(['a']);
  });

  it('keeps all when the days are 0', async () => {
    const { maintenance, deleted } = await maintain(records, '0');
    await maintenance.run();
    expect(deleted).toEqual([]);
  });

  it('looks for newer versions once per interval; one that fails keeps no other from it', async () => {
    const following = [
      image('e', {}),
      image('f', { autoUpdate: true, updateSource: source }),
      image('g', { autoUpdate: true, updateSource: source }),
      image('h', { autoUpdate: true }),
    ];
    const { maintenance, refreshed, clock } = await maintain(following, '10');
    maintenance.start();
    await maintenance.run();
    expect(refreshed).toEqual([]);
    clock.advance(DAY / 4);
    await maintenance.run();
    await maintenance.run();
    expect(refreshed).toEqual(['f', 'g']);
    maintenance[Symbol.dispose]();
  });
});
